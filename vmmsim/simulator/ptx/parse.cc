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
#include "declarations.h"
#include "source_lines.h"

namespace ptx {
namespace {

constexpr size_t largest_text = size_t(64) << 20;  // bytes: far above what a compiler writes
constexpr uint64_t register_cost = 64;             // bytes that a register counts as

// Special registers without their number or .x; any other name with % must have been declared.
constexpr std::string_view special_registers =
    " tid ntid laneid warpid nwarpid ctaid nctaid smid nsmid gridid is_explicit_cluster clusterid nclusterid "
    "cluster_ctaid"
    " cluster_nctaid cluster_ctarank cluster_nctarank lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock"
    " clock_hi clock64 globaltimer globaltimer_lo globaltimer_hi total_smem_size aggr_smem_size dynamic_smem_size"
    " current_graph_exec reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap"
    " reserved_smem_offset_0 reserved_smem_offset_1 ";

class Parser : Declarations {
 public:
  explicit Parser(Module& module)
      : Declarations({module.text.data(), module.text.size()}), module_(module), lines_(*this, module) {}

  void parse() {
    read_version();
    if (!is(".target")) fail(next().line, "Missing .target directive at start");
    module_.target_line = next().line;
    while (next().kind != Token::end) {
      declaration();
      if (!module_.target) fail(module_.target_line, "Target architecture not defined");
    }
    for (const Reference& reference : unknown_)
      if (!globals_.count(reference.name)) fail(reference.line, "nothing is named " + quoted(reference.name));
  }

  Token read_version() {
    expect(".version");
    const Token version = take(Token::number, "a version");
    const size_t dot = version.text.find('.');
    if (dot == version.text.npos) fail(version.line, "no version of PTX: " + quoted(version));
    const uint64_t major = integer(version.text.substr(0, dot), 10, version);
    const uint64_t minor = integer(version.text.substr(dot + 1), 10, version);
    if (major > 99 || minor > 9) fail(version.line, "no version of PTX: " + quoted(version));
    module_.version = static_cast<unsigned>(major * 10 + minor);
    return version;
  }

 private:
  struct Label {
    enum Kind : uint8_t { instruction, table, other } kind;
    int index;
  };
  struct Meaning {  // of a name: a register, or the first of several that are one vector, or a variable
    int reg = -1;
    std::string variable = {};
    unsigned vector = 1;
  };
  struct RegisterRange {  // %r<9>
    int first;
    uint64_t count;
    unsigned vector;
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
        if (!word.text.starts_with("sm_") && !word.text.starts_with("compute_")) continue;
        const size_t begin = word.text.find('_') + 1, end = word.text.find_first_not_of("0123456789", begin);
        const auto digits = word.text.substr(begin, end - begin);
        module_.target_variant = end < word.text.size() ? word.text[end] : '\0';
        const uint64_t target = integer(digits, 10, word);
        if (!target || target > 9999) fail(word.line, "no target: " + quoted(word));
        module_.target = static_cast<unsigned>(target);
      } while (accept(","));
    } else if (accept(".address_size")) {
      if (module_.version < 23) fail(next().line, "'.address_size' requires PTX ISA .version 2.3 or later");
      const int line = next().line;
      if (constant() != 64) fail(line, "32-Bit addressing is not supported: .address_size 64 is");
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
        const bool is_of_module = specified.space == Space::global || specified.space == Space::constant;
        if (is_of_module) variable.name += "@" + function_->name;
        if (scopes_.size() > 1 || is_of_module) variable.name += "@" + std::to_string(to.size());  // no name has a @
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
      if (!function_->is_entry && accept(".reg")) {
        to.push_back(parameter_in_register());
        continue;
      }
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

  Variable parameter_in_register() {
    Variable parameter;
    parameter.space = Space::param;
    parameter.type = type_of_register();
    parameter.alignment = parameter.size = bytes(parameter.type);
    parameter.reg = static_cast<int>(function_->registers.size());
    const Token name = take(Token::name, "a name");
    parameter.name = name.text;
    spend(register_cost);
    function_->registers.push_back(parameter.type);
    if (name.text != "_") add_name(name, {parameter.reg});
    return parameter;
  }

  void function(bool is_entry, Linkage linkage) {
    Function function;
    function_ = &function;
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
    function.line = name.line;
    if (accept("(")) parameters(function.parameters);
    while (next().kind == Token::dotted) performance_directive(function);
    function.is_declared_only = !is("{");
    size_t index = module_.functions.size();
    if (const auto known = globals_.find(name.text); known != globals_.end()) {
      index = known->second.index;
      if (!known->second.is_function || !module_.functions[index].is_declared_only)
        fail(name.line, quoted(name) + " is defined twice");
      const Linkage declared = module_.functions[index].linkage;
      const bool fits = function.linkage == declared || function.linkage == Linkage::internal;
      if (!function.is_declared_only && (declared == Linkage::external || !fits))
        fail(name.line, "Inconsistent redefinition of variable " + quoted(name));
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
      const bool is_twice = function.max_threads || function.required_threads[0];
      if (is_twice) fail(word.line, ".maxntid and .reqntid cannot both be specified");
      const std::array<unsigned, 3> size = dimensions(word);
      const uint64_t threads = uint64_t(size[0]) * size[1] * size[2];
      if (word.text == ".reqntid") function.required_threads = size;
      else function.max_threads = static_cast<unsigned>(std::min<uint64_t>(threads, ~0u));
    } else if (word.text == ".reqnctapercluster" || word.text == ".maxclusterrank" || word.text == ".explicitcluster" ||
               word.text == ".blocksareclusters") {
      if (!function.cluster_line) function.cluster_line = word.line;
      if (word.text == ".reqnctapercluster") function.cluster = dimensions(word);
      if (word.text == ".maxclusterrank") function.max_cluster = dimensions(word)[0];
      function.needs_cluster |= word.text == ".explicitcluster";
    } else if (word.text == ".minnctapersm" || word.text == ".maxnctapersm" || word.text == ".maxnreg" ||
               word.text == ".abi_preserve" || word.text == ".abi_preserve_control") {
      do constant();
      while (accept(","));
    } else if (word.text == ".pragma") {
      do take(Token::string, "a string");
      while (accept(","));
      accept(";");
    } else if (word.text != ".noreturn") {
      fail(word.line, "no directive of a function: " + quoted(word));
    }
  }

  std::array<unsigned, 3> dimensions(const Token& directive) {
    std::array<unsigned, 3> size = {1, 1, 1};
    size_t count = 0;
    do {
      const uint64_t value = constant_up_to(1 << 16, "a dimension");
      if (!value || count == 3)
        fail(directive.line, "three numbers at most, above 0, expected for " + quoted(directive));
      size[count] = static_cast<unsigned>(value);
      ++count;
    } while (accept(","));
    return size;
  }

  void body(Function& function) {
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
    if (!space || (linkage == Linkage::external && *space != Space::shared))
      fail(line, "an instruction or a declaration expected" + (space ? "" : ", not " + quoted(next())));
    const bool is_of_module = *space == Space::global || *space == Space::constant;
    variables(*space, linkage, is_of_module ? module_.variables : function.variables, true);
  }

  Type type_of_register() {
    const Token word = take(Token::dotted, "a type");
    const Type type = type_named(word.text.substr(1));
    if (type == Type::none) fail(word.line, "no type of a register: " + quoted(word));
    return type;
  }

  void registers(Function& function) {
    const unsigned vector = accept(".v2") ? 2 : accept(".v4") ? 4 : 1;
    const Type type = type_of_register();
    do {
      const Token name = take(Token::name, "a register");
      const int first = static_cast<int>(function.registers.size());
      uint64_t count = 1;
      if (accept("<")) {
        count = constant_up_to(most_memory, "a number of registers");
        expect(">");
        if (!scopes_.back().ranges.emplace(name.text, RegisterRange{first, count, vector}).second)
          fail(name.line, quoted(name) + " is defined twice");
      } else {
        if (range_of(scopes_.back(), name.text)) fail(name.line, quoted(name) + " is defined twice");
        add_name(name, {first, {}, vector});
      }
      spend(count > most_memory / register_cost ? most_memory + 1 : count * vector * register_cost);
      function.registers.insert(function.registers.end(), count * vector, type);
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
      if (const auto found = range_of(scope, name)) return found;
    }
    return std::nullopt;
  }
  static std::optional<Meaning> range_of(const Scope& scope, std::string_view name) {
    if (scope.ranges.empty()) return std::nullopt;
    const size_t most = std::min<size_t>(name.size() - 1, 9);
    for (size_t digits = 1; digits <= most && is_digit(name[name.size() - digits]); ++digits) {
      const std::string_view number = name.substr(name.size() - digits);
      const auto range = scope.ranges.find(name.substr(0, name.size() - digits));
      uint64_t value = 0;
      std::from_chars(number.data(), number.data() + digits, value);
      if (range != scope.ranges.end() && value < range->second.count && (digits == 1 || number[0] != '0'))
        return Meaning{range->second.first + static_cast<int>(value * range->second.vector), {}, range->second.vector};
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
    constant.value = expression(minus ? -constant.value : constant.value);
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
      if (found->vector > 1) return vector_or_part(std::move(operand), found->vector);
      if (next().kind == Token::dotted) operand.name = take().text.substr(1);  // an instruction for video
      else if (depth == 0 && is("+")) operand.offset = static_cast<int64_t>(constant());
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

  // A register that is a vector: one of its elements, or all.
  Operand vector_or_part(Operand first, unsigned count) {
    if (next().kind == Token::dotted) {
      const Token part = take();
      const size_t place = std::string_view("xyzwrgba").find(part.text.substr(1));
      if (part.text.size() != 2 || place == std::string_view::npos || place % 4 >= count)
        fail(part.line, "no part of a register: " + quoted(part));
      first.index += static_cast<int>(place % 4);
      return first;
    }
    Operand all;
    all.kind = Operand::list;
    for (unsigned k = 0; k < count; ++k, ++first.index) all.elements.push_back(first);
    return all;
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
  std::unordered_map<std::string_view, Global> globals_;
  Function* function_ = nullptr;  // that is being read, with its open scopes
  std::vector<Scope> scopes_;
};

}  // namespace

void need_version(std::string_view text, unsigned newest) {
  constexpr unsigned all[] = {10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 30, 31, 32, 40, 41, 42, 43, 50, 60, 61, 62,
                              63, 64, 65, 70, 71, 72, 73, 74, 75, 76, 77, 78, 80, 81, 82, 83, 84, 85, 86, 87, 88};
  Module module;
  module.text.assign(text.begin(), text.end());
  const Token version = Parser(module).read_version();
  const bool is_known = module.version >= 90 || std::ranges::find(all, module.version) != std::end(all);
  if (is_known && module.version <= newest) return;
  throw UnsupportedVersion("line " + std::to_string(version.line) + ": Unsupported .version " +
                           std::string(version.text) + "; current version is '" + std::to_string(newest / 10) + "." +
                           std::to_string(newest % 10) + "'");
}

Module parse(std::string_view text) {
  text = text.substr(0, text.find_last_not_of('\0') + 1);
  if (text.size() > largest_text) fail(1, "the text has more than " + std::to_string(largest_text) + " bytes");
  Module module;
  module.text.assign(text.begin(), text.end());
  Parser(module).parse();
  return module;
}

}  // namespace ptx
