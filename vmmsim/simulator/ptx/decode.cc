// SPDX-License-Identifier: MIT-0
#include "decode.h"
#include <algorithm>
#include <optional>
#include "tokens.h"

namespace ptx {

// What keeps an instruction from having a form: the modifier that is too many, and what it lacks one of.
struct Decoder::Misfit {
  size_t count = 0;
  std::optional<size_t> extra = {};
  const Slot* lack = nullptr;
};

namespace {

const Modifier unknown = {};

// Such have an order among themselves.
bool is_type(const Modifier* modifier) { return modifier->type != Type::none; }

// Whether a register of one type may stand where an instruction has another.
bool goes_with(Type reg, Type type, bool may_be_wider) {
  if (reg == Type::pred || type == Type::pred) return reg == type;
  if (may_be_wider ? bits(reg) < bits(type) : bits(reg) != bits(type)) return false;
  if (type == Type::bf16 || type == Type::bf16x2) return is_untyped(reg) || reg == type;
  if (is_untyped(reg) || is_untyped(type)) return true;
  if (reg == Type::f16x2) return is_typed_integer(type) || reg == type;
  return is_typed_integer(reg) ? is_typed_integer(type) : reg == type;
}

Type twice(Type type) {
  switch (type) {
    case Type::u16: return Type::u32;
    case Type::s16: return Type::s32;
    case Type::u32: return Type::u64;
    default: return Type::s64;
  }
}

bool is_sink(const Operand& operand) { return operand.kind == Operand::reg && operand.index < 0 && !operand.address; }
bool is_pair(const Operand& operand) {
  return operand.kind == Operand::list && !operand.address && operand.elements.size() == 2;
}

}  // namespace

size_t Decoded::which(std::initializer_list<Word> all) const {
  return static_cast<size_t>(std::ranges::find_if(all, [&](Word word) { return has(word); }) - all.begin());
}

const Operand* Decoded::find(std::string_view name) const {
  for (size_t k = 0; k < form->parameters.size(); ++k) {
    const Parameter& parameter = form->parameters[k];
    if (places[k] < 0 || (parameter.name != name && parameter.second != name)) continue;
    const Operand& operand = written->operands[static_cast<size_t>(places[k])];
    const bool is_second = parameter.second == name, has_two = !parameter.second.empty() && is_pair(operand);
    if (has_two) return &operand.elements[is_second];
    return is_second ? nullptr : &operand;
  }
  return nullptr;
}

void Decoder::fail(const std::string& what) const { ptx::fail(decoded_.written->line, what); }
void Decoder::fail_for_opcode(const std::string& what) const {
  fail(what + " for instruction '" + std::string(decoded_.written->opcode) + "'");
}
bool Decoder::has(const Modifier* modifier) const {
  return std::ranges::find(modifiers_, modifier) != modifiers_.end();
}

// --- Opcode and modifiers --------------------------------------------------------------------------------------------

void Decoder::decode_modifiers(const Instruction& instruction) {
  decoded_ = {};
  decoded_.written = &instruction;
  modifiers_.clear();
  types_.clear();
  for (const std::string_view word : instruction.modifiers) {
    const Modifier* const modifier = syntax().modifier(word);
    modifiers_.push_back(modifier ? modifier : &unknown);
    if (is_type(modifiers_.back())) types_.push_back(modifiers_.back()->type);
  }
  const Syntax::Named* const named = syntax().longest_name(instruction, name_size_);
  if (!named) {
    name_size_ = modifiers_.size();
    fail("Not a name of any known instruction: '" + name() + "'");
  }
  forms_.clear();
  std::optional<Misfit> least;
  for (const Form* const form : named->forms) {
    const Misfit found = misfit(*form);
    if (!found.count) forms_.push_back(form);
    if (!least || found.count < least->count) least = found;
  }
  if (forms_.empty()) refuse_modifiers(*least);
  decoded_.opcode = named->opcode;
  set_fields();
}

std::string Decoder::name() const {
  std::string all(decoded_.written->opcode);
  for (size_t k = 0; k < name_size_; ++k) all += "." + std::string(decoded_.written->modifiers[k]);
  return all;
}

Decoder::Misfit Decoder::misfit(const Form& form) const {
  std::vector<size_t> left;
  for (size_t k = name_size_; k < modifiers_.size(); ++k) left.push_back(k);
  Misfit result;
  const auto is_type_at = [&](size_t k) { return is_type(modifiers_[k]); };
  for (const Slot& slot : form.slots) {
    const auto found = std::ranges::find_if(left, [&](size_t k) { return slot.has(modifiers_[k]); });
    const bool is_in_order =
        found == left.end() || !is_type_at(*found) || std::none_of(left.begin(), found, is_type_at);
    if (found != left.end() && is_in_order) left.erase(found);
    else if (!slot.may_lack) ++result.count, result.lack = &slot;
  }
  std::erase_if(left, [&](size_t k) {
    const Modifier* const modifier = modifiers_[k];
    if (form.has_any_modifiers) return modifier->is_other;
    return modifier->is_repeatable && std::ranges::count(modifiers_, modifier) > 1;
  });
  result.count += left.size();
  if (!left.empty()) result.extra = left.front();
  return result;
}

void Decoder::refuse_modifiers(const Misfit& misfit) const {
  const Modifier* const modifier = misfit.extra ? modifiers_[*misfit.extra] : misfit.lack->choice.front();
  if (is_type(modifier)) {
    fail("Unexpected instruction types specified for '" + std::string(decoded_.written->opcode) + "'");
  } else if (misfit.extra) {
    fail_for_opcode("Illegal modifier '." + std::string(decoded_.written->modifiers[*misfit.extra]) + "'");
  }
  std::string needed;
  for (const Modifier* const each : misfit.lack->choice)
    needed += (needed.empty() ? "'." : " or '.") + std::string(each->text) + "'";
  fail_for_opcode(needed + " modifier required");
}

void Decoder::set_fields() {
  const auto set = [](auto& field, auto value) {
    if (value != std::remove_reference_t<decltype(field)>{}) field = value;
  };
  size_t types = 0, spaces = 0;
  for (const Modifier* const modifier : modifiers_) {
    if (modifier->type != Type::none && types < decoded_.types.size()) decoded_.types[types++] = modifier->type;
    if (modifier->space != Space::generic) (spaces++ ? decoded_.other_space : decoded_.space) = modifier->space;
    set(decoded_.scope, modifier->scope);
    set(decoded_.order, modifier->order);
    set(decoded_.cache, modifier->cache);
    set(decoded_.rounding, modifier->rounding);
    set(decoded_.comparison, modifier->comparison);
    set(decoded_.operation, modifier->operation);
    set(decoded_.count, modifier->count);
    decoded_.words.set(static_cast<size_t>(modifier->word));
  }
}

// An order and its scope.
void Decoder::check_groups(const Form& form) const {
  const Modifier* present = nullptr;
  const Slot* absent = nullptr;
  for (const Slot& slot : form.slots) {
    if (!slot.is_in_group) continue;
    const auto found = std::ranges::find_if(modifiers_, [&](const Modifier* each) { return slot.has(each); });
    if (found != modifiers_.end() && (*found)->order != Order::weak) present = *found;
    else absent = &slot;
  }
  if (present && absent)
    fail("Modifier '." + std::string(present->text) + "' requires " +
         (absent->choice[0]->scope == Scope::none ? "order" : "scope") + " with '" + name() + "' instruction");
}

// --- Operands --------------------------------------------------------------------------------------------------------

void Decoder::decode_operands() {
  for (const Form* const form : forms_) check_groups(*form);
  const auto form = std::ranges::find_if(forms_, [&](const Form* each) { return bind(*each); });
  if (form == forms_.end()) fail_for_opcode("Arguments mismatch");
  if ((*form)->parameters.empty() || !(*form)->parameters[0].is_result()) return;
  const Operand& result = decoded_.written->operands[0];
  if ((result.kind != Operand::reg && result.kind != Operand::list) || result.negated)
    fail_for_opcode("Result register required");
}

bool Decoder::bind(const Form& form) {
  decoded_.form = &form;
  if (form.has_any_operands) return true;
  const auto& operands = decoded_.written->operands;
  const auto is_needed = [&](const Parameter& parameter) {
    if (!parameter.may_lack) return true;
    return parameter.comes_with && std::ranges::any_of(*parameter.comes_with, [&](auto* each) { return has(each); });
  };
  const auto needed = static_cast<size_t>(std::ranges::count_if(form.parameters, is_needed));
  if (operands.size() < needed) return false;
  size_t further = operands.size() - needed, next = 0;
  for (size_t k = 0; k < form.parameters.size(); ++k) {
    const Parameter& parameter = form.parameters[k];
    bool is_there = is_needed(parameter);
    if (!is_there && !parameter.comes_with && further > 0) {
      is_there = true;
      --further;
    }
    decoded_.places[k] = is_there ? static_cast<int8_t>(next) : int8_t(-1);
    if (is_there && !fits(operands[next++], parameter)) return false;
  }
  return further == 0;
}

bool Decoder::fits(const Operand& operand, const Parameter& parameter) const {
  const auto& values = parameter.values;
  switch (parameter.kind) {
    case Parameter::address: return operand.address;
    case Parameter::sink: return is_sink(operand);
    case Parameter::symbol: return operand.kind == Operand::symbol && !operand.address;
    case Parameter::constant:
      return operand.kind == Operand::integer && !operand.address &&
             (values.empty() || std::ranges::find(values, operand.value) != values.end());
    default: return fits_value(operand, parameter);
  }
}

bool Decoder::fits_value(const Operand& operand, const Parameter& parameter) const {
  const auto fits_or_sink = [&](const Operand& element, bool may_be_sink) {
    return (may_be_sink && is_sink(element)) || fits_type(element, parameter);
  };
  if (!parameter.second.empty()) {
    if (!is_pair(operand)) return parameter.second_may_lack && fits_type(operand, parameter);
    const Operand& second = operand.elements[1];
    return fits_or_sink(operand.elements[0], parameter.may_be_sink) && (is_sink(second) || fits(second, Type::pred));
  }
  if (parameter.may_be_special && operand.kind == Operand::special) return true;
  if (decoded_.count == 1 || parameter.type != Type::none || (parameter.may_be_sink && is_sink(operand)))
    return fits_or_sink(operand, parameter.may_be_sink);
  const bool may_have_sinks = parameter.is_result() || !parameter.may_be_wider;
  return operand.kind == Operand::list && !operand.address && operand.elements.size() == decoded_.count &&
         std::ranges::all_of(operand.elements, [&](const Operand& each) { return fits_or_sink(each, may_have_sinks); });
}

bool Decoder::fits_type(const Operand& operand, const Parameter& parameter) const {
  Type type = parameter.type;
  if (type == Type::none && !types_.empty()) type = parameter.has_first_type ? types_.front() : types_.back();
  if (parameter.is_twice_as_wide) type = twice(type);
  if (type == Type::f32x2) type = Type::u64;
  const bool is_register_only = type == Type::u16x2 || type == Type::s16x2 || type == Type::tf32;
  if (is_register_only && operand.kind != Operand::reg) return false;
  if (parameter.has_part) {
    if (operand.kind != Operand::reg && operand.kind != Operand::integer) return false;
    Operand whole = operand;
    whole.name.clear();
    whole.negated &= !parameter.has_sign;
    return fits(whole, Type::u32);
  }
  if (is_register_only || parameter.type == Type::u32) {
    const bool is_half2 = operand.kind == Operand::reg && operand.index >= 0 &&
                          function_.registers[static_cast<size_t>(operand.index)] == Type::f16x2;
    if (operand.kind == Operand::integer && (operand.value > parameter.most || operand.value % parameter.multiple))
      return false;
    return !is_half2 && fits(operand, Type::u32);
  }
  // Nothing is wider where one of the types is bf16 or has several values.
  const auto is_exact = [](Type each) { return (each >= Type::f16x2 && each <= Type::e5m2x4) || each == Type::tf32; };
  return fits(operand, type, parameter.may_be_wider && std::ranges::none_of(types_, is_exact));
}

bool Decoder::fits(const Operand& operand, Type type, bool may_be_wider) const {
  if (operand.address || !operand.name.empty()) return false;
  if (operand.negated && type != Type::pred) return false;
  switch (operand.kind) {
    case Operand::reg:
      return operand.index >= 0 &&
             (type == Type::none ||
              goes_with(function_.registers[static_cast<size_t>(operand.index)], type, may_be_wider));
    case Operand::integer: return !is_floating(type);
    case Operand::floating: return type == Type::f32 || type == Type::f64 || type == Type::b32 || type == Type::b64;
    default: return false;
  }
}

}  // namespace ptx
