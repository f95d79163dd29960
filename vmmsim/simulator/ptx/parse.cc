// SPDX-License-Identifier: MIT-0
// The grammar of PTX, read from left to right with one token of foresight. Names are looked up where they are used, in
// the scopes that are open there; what may be a label that comes later is settled when its scope is closed.
#include <algorithm>
#include <bit>
#include <cassert>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include "source_lines.h"

namespace ptx {
namespace {

// Far above what a compiler writes, and low enough that no text makes the reader take much memory or time.
constexpr size_t largest_text = size_t(64) << 20;                                      // bytes
constexpr uint64_t largest_variable = uint64_t(1) << 40, largest_alignment = 1 << 20;  // bytes
constexpr uint64_t most_memory = uint64_t(256) << 20;  // bytes, for initial values and registers of the whole text
constexpr uint64_t register_cost = 64;                 // bytes that a register counts as

// Special registers without their number or .x; any other name with % must have been declared.
constexpr std::string_view special_registers =
    " tid ntid laneid warpid nwarpid ctaid nctaid smid nsmid gridid is_explicit_cluster clusterid nclusterid "
    "cluster_ctaid"
    " cluster_nctaid cluster_ctarank cluster_nctarank lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock"
    " clock_hi clock64 globaltimer globaltimer_lo globaltimer_hi total_smem_size aggr_smem_size dynamic_smem_size"
    " current_graph_exec reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap"
    " reserved_smem_offset_0 reserved_smem_offset_1 ";

class Parser : Tokens {
 public:
  explicit Parser(Module& module)
      : Tokens({module.text.data(), module.text.size()}), module_(module), lines_(*this, module) {}

  void parse() {
    expect(".version");
    const Token version = take(Token::number, "a version");
    const size_t dot = std::min(version.text.find('.'), version.text.size() - 1);
    const uint64_t major = integer(version.text.substr(0, dot), 10, version);
    const uint64_t minor = integer(version.text.substr(dot + 1), 10, version);
    if (major > 99 || minor > 9) fail(version.line, "no version of PTX: " + quoted(version));
    module_.version = static_cast<unsigned>(major * 10 + minor);
    while (next().kind != Token::end) declaration();
    if (!module_.target) fail(next().line, "no .target sm_...");
    for (const Reference& reference : unknown_)
      if (!globals_.count(reference.name)) fail(reference.line, "nothing is named " + quoted(reference.name));
  }

 private:
  // A name whose meaning comes later in the text: of an operand of an instruction, of an entry of a table of branch
  // targets, or (none) of something that can be no label.
  struct Reference {
    enum Where : uint8_t { none, operand, table };
    std::string_view name;
    int line = 0;
    Where where = none;
    size_t owner = 0, place = 0;  // the instruction and its operand; the table and its entry
  };
  struct Label {
    enum Kind : uint8_t { instruction, table, other } kind;
    int index;
  };
  struct Meaning {  // of a name: a register, or a variable
    int reg = -1;
    std::string variable;
  };
  struct RegisterRange {  // %r<9>
    int first;
    uint64_t count;
  };
  struct Scope {
    std::unordered_map<std::string_view, Meaning> names;
    std::unordered_map<std::string_view, RegisterRange> ranges;
    std::unordered_map<std::string_view, Label> labels;
    std::vector<Reference> references;
  };
  struct Global {
    bool is_function;
    size_t index;  // in Module::functions or variables
  };

  void spend(uint64_t bytes) {
    if (bytes > most_memory - spent_) fail(next().line, "more registers or initial values than are read");
    spent_ += bytes;
  }

  // ---- directives that say nothing about what a program computes; false if the token begins none
  bool skip_directive() {
    if (accept(".file")) {
      lines_.read_file();
    } else if (accept(".loc")) {
      lines_.read_loc();
    } else if (accept(".pragma")) {
      do take(Token::string, "a string");
      while (accept(","));
      expect(";");
    } else if (accept(".section")) {
      take();
      skip_brackets("{", "}", "a .section");
    } else {
      return false;
    }
    return true;
  }

  // ---- the module
  void declaration() {
    if (skip_directive() || accept(";")) return;
    if (accept(".target")) {
      do {
        const Token word = take(Token::name, "a target");
        if (word.text.substr(0, 3) != "sm_") continue;
        const auto digits = word.text.substr(3, word.text.find_first_not_of("0123456789", 3) - 3);
        const uint64_t target = integer(digits, 10, word);
        if (!target || target > 9999) fail(word.line, "no target: " + quoted(word));
        module_.target = static_cast<unsigned>(target);
      } while (accept(","));
    } else if (accept(".address_size")) {
      const int line = next().line;
      if (constant() != 64) fail(line, "addresses of 64 bits only are read");
    } else {
      const Linkage linkage = accept_linkage();
      if (is(".entry") || is(".func")) function(take().text == ".entry", linkage);
      else if (const auto space = accept_space(); space && *space != Space::local && *space != Space::param) {
        variables(*space, linkage, module_.variables, false);
      } else fail(next().line, "a function or a variable expected, not " + quoted(next()));
    }
  }

  void define(std::string_view name, Global global, int line) {
    if (!globals_.emplace(name, global).second) fail(line, quoted(name) + " is defined twice");
  }

  Linkage accept_linkage() {
    if (accept(".extern")) return Linkage::external;
    if (accept(".visible")) return Linkage::visible;
    if (accept(".weak")) return Linkage::weak;
    if (accept(".common")) return Linkage::common;
    return Linkage::internal;
  }

  // ---- variables
  std::optional<Space> accept_space() {
    if (accept(".global")) return Space::global;
    if (accept(".const")) return Space::constant;
    if (accept(".shared")) return Space::shared;
    if (accept(".local")) return Space::local;
    if (accept(".param")) return Space::param;
    return std::nullopt;
  }

  // What stands before the name: .align 8 .b8, or .u64 .ptr .global .align 16
  Variable specification(Space space, unsigned& vector) {
    Variable variable;
    variable.space = space;
    variable.alignment = 0;
    vector = 1;
    bool of_pointee = false;
    while (next().kind == Token::dotted) {
      const Token word = take();
      if (word.text == ".align") {
        const uint64_t alignment = constant_up_to(largest_alignment, "an alignment");
        if (!std::has_single_bit(alignment)) fail(word.line, "an alignment is a power of two");
        if (!of_pointee) variable.alignment = alignment;
      } else if (word.text == ".attribute") {
        expect("(");
        do {
          if (accept(".managed")) variable.is_managed = true;
          else if (accept(".unified")) {
            expect("(");
            constant();
            expect(",");
            constant();
            expect(")");
          } else fail(next().line, "no attribute: " + quoted(next()));
        } while (accept(","));
        expect(")");
      } else if (word.text == ".ptr") {
        of_pointee = true;
      } else if (word.text == ".v2" || word.text == ".v4" || word.text == ".v8") {
        vector = static_cast<unsigned>(word.text[2] - '0');
      } else if (!of_pointee || !std::strchr("gcls", word.text[1])) {  // .ptr's .global, .const, .local or .shared
        variable.type = type_named(word.text.substr(1));
        if (bits(variable.type) < 8) fail(word.line, "no type of a variable: " + quoted(word));
      }
    }
    if (variable.type == Type::none) fail(next().line, "a type expected, not " + quoted(next()));
    if (!variable.alignment) variable.alignment = bytes(variable.type) * vector;
    return variable;
  }

  // The name, the dimensions and the initial value, after the specification.
  Variable declarator(Variable variable, unsigned vector, bool may_be_unsized) {
    const Token name = take(Token::name, "a name");
    variable.name = name.text;
    std::vector<uint64_t> dimensions;
    bool is_unsized = false;  // the first dimension is as large as there are initial values
    const auto add = [&](uint64_t count) {
      dimensions.push_back(count);
      if (dimensions.size() > deepest || __builtin_mul_overflow(variable.size, count, &variable.size) ||
          variable.size > largest_variable)
        fail(name.line, quoted(name) + " is too large");
    };
    variable.size = bytes(variable.type);
    while (accept("[")) {
      if (is("]") && !dimensions.empty()) fail(next().line, "only the first dimension may be left out");
      is_unsized |= is("]");
      add(is("]") ? 1 : constant_up_to(largest_variable, "a dimension"));
      if (!dimensions.back()) fail(name.line, quoted(name) + " has no size");
      expect("]");
    }
    if (vector > 1) add(vector);
    if (is_unsized) dimensions[0] = largest_variable;
    uint64_t count = 0;
    if (accept("=")) count = initial_values(variable, dimensions, 0, 0);
    else if (is_unsized && !may_be_unsized) fail(name.line, quoted(name) + " has no size");
    if (is_unsized) variable.size *= count;
    for (const auto& address : variable.relocations)
      if (variable.size < 8 || address.at > variable.size - 8)
        fail(name.line, "a part of an address is missing at the end");
    return variable;
  }

  // Returns how many there are at this level.
  uint64_t initial_values(Variable& variable, const std::vector<uint64_t>& dimensions, size_t level, uint64_t at) {
    if (level == dimensions.size()) {
      initial_value(variable, at);
      return 1;
    }
    uint64_t count = 0, stride = bytes(variable.type);
    for (size_t k = level + 1; k < dimensions.size(); ++k) stride *= dimensions[k];
    expect("{");
    if (accept("}")) return 0;
    do {
      if (count == dimensions[level] || at > largest_variable) fail(next().line, "too many initial values");
      initial_values(variable, dimensions, level + 1, at);
      ++count;
      at += stride;
    } while (accept(","));
    expect("}");
    return count;
  }

  // A number, or the address of a symbol: x, x+8, generic(x)+8. Of an address that lies unaligned each byte is written
  // alone, as 0xFF00(x) for the second.
  void initial_value(Variable& variable, uint64_t at) {
    const int line = next().line;
    const unsigned size = bytes(variable.type);
    uint64_t value = 0;
    if (next().kind == Token::name) {
      if (size != 8) fail(line, "an address has 64 bits, or is given byte for byte");
      variable.relocations.push_back(relocation(at));
    } else {
      const bool negative = accept("-");
      if (next().kind == Token::number) {
        const Operand number = literal(take());
        if (accept("(")) byte_of_address(variable, at, number.value, line);
        else value = initial_number(number, negative, variable.type, line);
      } else {
        const uint64_t first = unary();
        value = sum(negative ? -first : first);
      }
    }
    if (at + size > variable.initial.size()) {
      spend(at + size - variable.initial.size());
      variable.initial.resize(at + size);
    }
    std::memcpy(&variable.initial[at], &value, std::min(size, 8u));
  }
  uint64_t initial_number(const Operand& number, bool negative, Type type, int line) {
    const bool is_floating = number.kind == Operand::floating;
    if (!is_floating && type != Type::f32 && type != Type::f64) return sum(negative ? -number.value : number.value);
    auto real = is_floating ? std::bit_cast<double>(number.value) : static_cast<double>(number.value);
    if (negative) real = -real;
    if (bytes(type) == 8) return std::bit_cast<uint64_t>(real);
    if (bytes(type) == 4) return std::bit_cast<uint32_t>(static_cast<float>(real));
    fail(line, "a floating-point value for a type that is neither f32 nor f64");
  }
  Variable::Relocation relocation(uint64_t at) {
    const bool is_generic = accept("generic");
    if (is_generic) expect("(");
    const Token symbol = take(Token::name, "a symbol");
    uint64_t plus = offset();
    if (is_generic) {
      expect(")");
      plus += offset();
    }
    unknown_.push_back({symbol.text, symbol.line});
    return {at, std::string(symbol.text), static_cast<int64_t>(plus)};
  }
  void byte_of_address(Variable& variable, uint64_t at, uint64_t mask, int line) {  // after the parenthesis
    const Variable::Relocation here = relocation(at);
    expect(")");
    const auto byte = mask ? static_cast<unsigned>(std::countr_zero(mask) / 8) : 0;
    if (bytes(variable.type) != 1 || mask != uint64_t(0xff) << byte * 8)
      fail(line, "an address has 64 bits, or is given byte for byte");
    if (byte == 0) {
      variable.relocations.push_back(here);
      return;
    }
    const Variable::Relocation* const begun = variable.relocations.empty() ? nullptr : &variable.relocations.back();
    if (!begun || begun->at + byte != at || begun->symbol != here.symbol || begun->offset != here.offset)
      fail(line, "the bytes of an address are out of order");
  }

  // One declaration of one or more variables, after the space.
  void variables(Space space, Linkage linkage, std::vector<Variable>& to, bool in_function) {
    const bool is_extern = linkage == Linkage::external;
    unsigned vector = 1;
    Variable specified = specification(space, vector);
    specified.linkage = linkage;
    do {
      const Token name = next();
      Variable variable = declarator(specified, vector, is_extern);
      if (in_function) {
        if (scopes_.size() > 1) variable.name += "@" + std::to_string(to.size());  // unique: no name has a @
        add_name(name, {-1, variable.name});
      } else if (const auto known = globals_.find(name.text);
                 known != globals_.end() && !known->second.is_function &&
                 (is_extern || to[known->second.index].linkage == Linkage::external)) {  // declared and defined
        if (!is_extern) to[known->second.index] = std::move(variable);
        continue;
      } else {
        define(name.text, {false, to.size()}, name.line);
      }
      to.push_back(std::move(variable));
    } while (accept(","));
    expect(";");
  }

  // ---- functions
  void parameters(std::vector<Variable>& to) {  // after the parenthesis
    if (accept(")")) return;
    do {
      if (!is(".param")) fail(next().line, "a parameter expected, not " + quoted(next()));
      take();
      unsigned vector = 1;
      const Variable specified = specification(Space::param, vector);
      const Token name = next();
      to.push_back(declarator(specified, vector, true));
      if (name.text != "_") add_name(name, {-1, to.back().name});
    } while (accept(","));
    expect(")");
  }

  void function(bool is_entry, Linkage linkage) {
    Function function;
    function.is_entry = is_entry;
    function.linkage = linkage;
    scopes_.assign(1, {});
    for (bool more = true; more;) {
      if (accept(".attribute")) skip_brackets("(", ")", "an attribute");  // .attribute(.unified(1, 2))
      else more = accept(".noreturn");
    }
    if (!is_entry && accept("(")) parameters(function.returns);
    const Token name = take(Token::name, "the name of a function");
    function.name = name.text;
    if (accept("(")) parameters(function.parameters);
    while (next().kind == Token::dotted) performance_directive(function);
    function.is_declared_only = !is("{");
    size_t index = module_.functions.size();
    if (const auto known = globals_.find(name.text); known != globals_.end()) {
      index = known->second.index;
      if (!known->second.is_function || !(function.is_declared_only || module_.functions[index].is_declared_only))
        fail(name.line, quoted(name) + " is defined twice");
    } else {
      define(name.text, {true, index}, name.line);
      module_.functions.emplace_back();
      module_.functions.back().is_declared_only = true;
    }
    if (function.is_declared_only) expect(";");
    else body(function);
    if (!function.is_declared_only || module_.functions[index].name.empty())
      module_.functions[index] = std::move(function);
  }
  void performance_directive(Function& function) {
    const Token word = take();
    if (word.text == ".maxntid" || word.text == ".reqntid") {
      uint64_t threads = 1;
      do threads *= constant_up_to(1 << 16, "a number of threads");
      while (accept(","));
      function.max_threads = static_cast<unsigned>(std::min<uint64_t>(threads, ~0u));
    } else if (word.text == ".minnctapersm" || word.text == ".maxnctapersm" || word.text == ".maxnreg" ||
               word.text == ".reqnctapercluster" || word.text == ".maxclusterrank" || word.text == ".abi_preserve" ||
               word.text == ".abi_preserve_control") {
      do constant();
      while (accept(","));
    } else if (word.text == ".pragma") {
      do take(Token::string, "a string");
      while (accept(","));
      accept(";");
    } else if (word.text != ".noreturn" && word.text != ".explicitcluster" && word.text != ".blocksareclusters") {
      fail(word.line, "no directive of a function: " + quoted(word));
    }
  }

  void body(Function& function) {
    function_ = &function;
    lines_.begin_function();
    expect("{");
    while (!scopes_.empty()) {
      if (next().kind == Token::end) fail(next().line, "function " + quoted(function.name) + " without its end");
      if (accept("{")) {
        if (scopes_.size() == deepest) fail(next().line, "nested too deep");
        scopes_.emplace_back();
      } else if (accept("}")) {
        close_scope();
      } else if (next().kind == Token::name) {
        const Token first = take();
        if (accept(":")) label(first);
        else instruction(first, first);
      } else if (is("@")) {
        const Token first = take();
        instruction(first, {});
      } else if (!accept(";") && !skip_directive()) {
        body_declaration(function);
      }
    }
  }

  void body_declaration(Function& function) {
    const int line = next().line;
    if (accept(".reg")) return registers(function);
    const Linkage linkage = accept(".extern") ? Linkage::external : Linkage::internal;
    const auto space = accept_space();
    if (!space || *space == Space::global || *space == Space::constant ||
        (linkage == Linkage::external && *space != Space::shared))
      fail(line, "an instruction or a declaration expected" + (space ? "" : ", not " + quoted(next())));
    variables(*space, linkage, function.variables, true);
  }

  void registers(Function& function) {
    const Token word = take(Token::dotted, "a type");
    const Type type = type_named(word.text.substr(1));
    if (type == Type::none) fail(word.line, "no type of a register: " + quoted(word));
    do {
      const Token name = take(Token::name, "a register");
      const int first = static_cast<int>(function.registers.size());
      uint64_t count = 1;
      if (accept("<")) {
        count = constant_up_to(most_memory, "a number of registers");
        expect(">");
        if (!scopes_.back().ranges.emplace(name.text, RegisterRange{first, count}).second)
          fail(name.line, quoted(name) + " is defined twice");
      } else {
        add_name(name, {first, {}});
      }
      spend(count > most_memory / register_cost ? most_memory + 1 : count * register_cost);
      function.registers.insert(function.registers.end(), count, type);
    } while (accept(","));
    expect(";");
  }

  void label(const Token& name) {
    Label label{Label::instruction, static_cast<int>(function_->code.size())};
    if (accept(".branchtargets")) {
      auto& tables = function_->branch_targets;
      label = {Label::table, static_cast<int>(tables.size())};
      tables.emplace_back();
      do {
        const Token target = take(Token::name, "a label");
        scopes_.back().references.push_back(
            {target.text, target.line, Reference::table, tables.size() - 1, tables.back().size()});
        tables.back().push_back(-1);
      } while (accept(","));
      expect(";");
    } else if (is(".callprototype") || is(".calltargets")) {
      label.kind = Label::other;
      while (!accept(";")) {
        if (next().kind == Token::end || is("}")) fail(next().line, "';' expected, not " + quoted(next()));
        take();
      }
    }
    if (!scopes_.back().labels.emplace(name.text, label).second) fail(name.line, quoted(name) + " is defined twice");
  }

  // All labels of the scope are known: settles what names them, and leaves the rest to the scope around it.
  void close_scope() {
    assert(!scopes_.empty());
    Scope scope = std::move(scopes_.back());
    scopes_.pop_back();
    for (const Reference& reference : scope.references) {
      const auto label = scope.labels.find(reference.name);
      if (label == scope.labels.end()) {
        if (!scopes_.empty()) scopes_.back().references.push_back(reference);
        else if (reference.where == Reference::table) fail(reference.line, "no label " + quoted(reference.name));
        else unknown_.push_back(reference);
        continue;
      }
      const Label& found = label->second;
      if (reference.where == Reference::table) {
        if (found.kind != Label::instruction) fail(reference.line, quoted(reference.name) + " is no place to go to");
        function_->branch_targets[reference.owner][reference.place] = found.index;
      } else if (reference.where == Reference::operand) {
        Operand& operand = function_->code[reference.owner].operands[reference.place];
        if (found.kind == Label::instruction) {
          operand.kind = Operand::label;
          operand.index = found.index;
        }
        if (found.kind == Label::table) operand.value = static_cast<uint64_t>(found.index);
      } else {
        fail(reference.line, "the label " + quoted(reference.name) + " is no value");
      }
    }
  }

  // ---- names
  void add_name(const Token& name, Meaning meaning) {
    if (!scopes_.back().names.emplace(name.text, std::move(meaning)).second)
      fail(name.line, quoted(name) + " is defined twice");
  }
  // The meaning of a name where it is used; of %r7 the register number 7 of %r<9>.
  std::optional<Meaning> find(std::string_view name) const {
    for (size_t k = scopes_.size(); k-- > 0;) {
      const Scope& scope = scopes_[k];
      if (const auto found = scope.names.find(name); found != scope.names.end()) return found->second;
      if (scope.ranges.empty()) continue;
      const size_t most = std::min<size_t>(name.size() - 1, 9);
      for (size_t digits = 1; digits <= most && is_digit(name[name.size() - digits]); ++digits) {
        const std::string_view number = name.substr(name.size() - digits);
        const auto range = scope.ranges.find(name.substr(0, name.size() - digits));
        uint64_t value = 0;
        std::from_chars(number.data(), number.data() + digits, value);
        if (range != scope.ranges.end() && value < range->second.count && (digits == 1 || number[0] != '0'))
          return Meaning{range->second.first + static_cast<int>(value), {}};
      }
    }
    return std::nullopt;
  }

  // ---- instructions
  // `first` is where it begins: its opcode, which is `opcode` then, or the @ of its guard.
  void instruction(const Token& first, Token opcode) {
    Instruction& instruction = function_->code.emplace_back();
    instruction.line = first.line;
    instruction.source = lines_.of_instruction();
    if (opcode.text.empty()) {
      instruction.guard_negated = accept("!");
      const Token guard = take(Token::name, "a predicate");
      const auto found = find(guard.text);
      if (!found || found->reg < 0 || function_->registers[static_cast<size_t>(found->reg)] != Type::pred)
        fail(guard.line, quoted(guard) + " is no predicate");
      instruction.guard = found->reg;
      opcode = take(Token::name, "an instruction");
    }
    if (!is_letter(opcode.text[0])) fail(opcode.line, "an instruction expected, not " + quoted(opcode));
    instruction.opcode = opcode.text;
    while (next().kind == Token::dotted) instruction.modifiers.push_back(take().text.substr(1));
    if (!is(";")) {
      do instruction.operands.push_back(operand(0));
      while (accept(","));
    }
    const char* const begin = first.text.data();
    const char* end = next().text.data();
    expect(";");
    while (end > begin && std::strchr(" \t\r\n", end[-1])) --end;
    instruction.text = {begin, static_cast<size_t>(end - begin)};
  }

  // A list without its first brace. One in parentheses may be empty.
  Operand list(std::string_view closing, size_t depth, std::vector<Operand> elements = {}) {
    Operand list;
    list.kind = Operand::list;
    list.elements = std::move(elements);
    if (closing == ")" && accept(closing)) return list;
    do list.elements.push_back(operand(depth + 1));
    while (accept(","));
    expect(closing);
    return list;
  }

  Operand operand(size_t depth) {
    if (depth > deepest) fail(next().line, "nested too deep");
    if (accept("{")) return list("}", depth);
    if (function_->code.back().opcode == "call" && accept("(")) return list(")", depth);
    if (accept("[")) return address(depth);
    const bool inverted = accept("!");
    const bool minus = !inverted && accept("-");
    if (next().kind == Token::name) return named_or_two(depth, inverted || minus);
    if (inverted) fail(next().line, "a register expected, not " + quoted(next()));
    return constant_operand(minus);
  }

  Operand address(size_t depth) {  // after the bracket
    const int line = next().line;
    Operand address = operand(depth + 1);
    if (address.address || address.negated ||
        (address.kind != Operand::reg && address.kind != Operand::integer && address.kind != Operand::symbol))
      fail(line, "no address");
    if (address.kind == Operand::reg) address.offset = static_cast<int64_t>(offset());
    if (accept(",")) address = list("]", depth, {std::move(address)});  // of a tensor: [a, {b, c}]
    else expect("]");
    address.address = true;
    return address;
  }

  // What has a name, or two destinations: p|q.
  Operand named_or_two(size_t depth, bool negated) {
    Operand first = named(depth);
    if (negated && first.kind != Operand::reg && first.kind != Operand::special)
      fail(next().line, "a register expected");
    first.negated = negated;
    if (!accept("|")) return first;
    Operand both;
    both.kind = Operand::list;
    both.elements.push_back(std::move(first));
    both.elements.push_back(operand(depth + 1));
    return both;
  }

  Operand constant_operand(bool minus) {
    Operand constant;
    if (next().kind == Token::number) {
      constant = literal(take());
      if (constant.kind == Operand::floating) {
        if (minus) constant.value ^= uint64_t(1) << 63;
        return constant;
      }
    } else if (is("(") || is("~") || is("+")) {
      constant.value = unary();
    } else {
      fail(next().line, "an operand expected, not " + quoted(next()));
    }
    constant.value = sum(minus ? -constant.value : constant.value);
    return constant;
  }

  // A register, special register or symbol, or what may be a label.
  Operand named(size_t depth) {
    const Token name = take();
    Operand operand;
    operand.kind = Operand::reg;
    if (name.text == "_") return operand;
    if (const auto found = find(name.text); found && found->reg >= 0) {
      operand.index = found->reg;
      return operand;
    } else if (found) {
      operand.name = found->variable;
    } else if (name.text == "WARP_SZ") {
      operand.kind = Operand::integer;
      operand.value = 32;
      return operand;
    } else if (name.text[0] == '%') {
      return special(name);
    } else {
      operand.name = name.text;
      scopes_.back().references.push_back({name.text, name.line, depth ? Reference::none : Reference::operand,
                                           function_->code.size() - 1, function_->code.back().operands.size()});
    }
    operand.kind = Operand::symbol;
    operand.value = offset();
    return operand;
  }

  Operand special(const Token& name) {
    const std::string_view base = name.text.substr(1);
    const bool is_numbered = base.starts_with("pm") || base.starts_with("envreg");  // %pm0, %pm0_64, %envreg31
    const std::string word = " " + std::string(base) + " ";
    if (!is_numbered && special_registers.find(word) == special_registers.npos)
      fail(name.line, "the register " + quoted(name) + " is not declared");
    Operand operand;
    operand.kind = Operand::special;
    operand.name = name.text;
    if (next().kind == Token::dotted) {
      if (next().text.size() != 2 || !std::strchr("xyzw", next().text[1]))
        fail(next().line, "no part of a register: " + quoted(next()));
      operand.name += take().text;
    }
    return operand;
  }

  Module& module_;
  SourceLines lines_;
  uint64_t spent_ = 0;
  std::unordered_map<std::string_view, Global> globals_;
  std::vector<Reference> unknown_;  // which the module must have when it ends
  Function* function_ = nullptr;    // that is being read, with its open scopes
  std::vector<Scope> scopes_;
};

}  // namespace

Module parse(std::string_view text) {
  text = text.substr(0, text.find_last_not_of('\0') + 1);
  if (text.size() > largest_text) fail(1, "the text has more than " + std::to_string(largest_text) + " bytes");
  Module module;
  module.text.assign(text.begin(), text.end());
  Parser(module).parse();
  return module;
}

}  // namespace ptx
