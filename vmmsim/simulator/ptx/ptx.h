// SPDX-License-Identifier: MIT-0
// From a fat binary to PTX text, and from PTX text to functions, variables and instructions. Knows the grammar of PTX
// and nothing of what an instruction does.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

// What is wrong with a fat binary or a PTX text, and where: "line 12: ...". Whatever the input is, these readers return
// or throw this.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Values that are called as PTX calls them: with _ behind what is a word of C++, too, and _ for ::.
#define PTX_WORDS(Enumeration, ...)                       \
  enum class Enumeration : uint8_t { none, __VA_ARGS__ }; \
  constexpr std::string_view words_of(Enumeration) { return #__VA_ARGS__; }

// PTX's fundamental types, and from u16x2 on those that only instructions have. bits(type) and the rest below say what
// each is.
PTX_WORDS(Type, pred, b8, b16, b32, b64, b128, u8, u16, u32, u64, s8, s16, s32, s64, f16, f16x2, bf16, bf16x2, e4m3,
          e5m2, e4m3x2, e5m2x2, e4m3x4, e5m2x4, f32, f64, u16x2, s16x2, f32x2, tf32, u4, s4, u2, s2)
Type type_named(std::string_view name);  // "u32" -> Type::u32; Type::none if there is no such type
unsigned bits(Type type);                // 1 for pred, 0 for none
inline unsigned bytes(Type type) { return (bits(type) + 7) / 8; }
inline bool is_untyped(Type type) { return type >= Type::b8 && type <= Type::b128; }
inline bool is_typed_integer(Type type) { return type >= Type::u8 && type <= Type::s64; }
inline bool is_signed(Type type) {
  return (type >= Type::s8 && type <= Type::s64) || type == Type::s4 || type == Type::s2;
}
inline bool is_floating(Type type) {
  return (type >= Type::f16 && type <= Type::bf16x2) || type == Type::f32 || type == Type::f64;
}

enum class Space : uint8_t { generic, global, shared, local, constant, param };

// What a symbol is to the other texts of a linked module: nothing, another text's, or theirs too. Of weak ones the
// first counts, or one that is visible; all common ones are one variable.
enum class Linkage : uint8_t { internal, external, visible, weak, common };

struct Operand {
  enum Kind : uint8_t {
    reg,       // index: the register in Function::registers; negative: the sink "_"; offset: a number added to it
    integer,   // value: a literal, negative ones as two's complement
    floating,  // value: the bits of a double (also for 0f...: the double of the same value)
    special,   // name: "%tid.x", "%globaltimer", ...
    symbol,    // name: a variable or function; value: an offset added to its address ("table+8")
    label,     // index: the instruction that it names, in Function::code; its size if the label is at the end
    list       // elements: {a, b}, or the parenthesised arguments of a call
  };
  Kind kind = integer;
  bool address = false;  // in brackets: [%rd1+8], [table], [16]
  bool negated = false;  // !%p1, -%r2
  int index = -1;
  int64_t offset = 0;  // of [register + offset], or of register + offset
  uint64_t value = 0;
  std::string name;  // of a register: which part of it an instruction for video takes, "b1", "h10"
  std::vector<Operand> elements;
};

// A line of the source, by .loc and .file. Code that was inlined has the place of the call, too, and so on up to the
// function that the instruction is in, or as far as the PTX tells without doubt.
struct Location {
  const std::string_view* file;  // in Module::files; empty if no .file gives its name
  int line;
  const Location* inlined_at;  // null: not inlined
};

// One instruction: "@!%p1 ld.global.v2.u32 {%r1, %r2}, [%rd1+8];" has guard p1, guard_negated, opcode "ld",
// modifiers global, v2, u32, and two operands. A second destination "%p1|%p2" is a list of two, as is the address of a
// tensor "[%rd1, {%r1, %r2}]". A call has the lists of its returns and arguments where they are written.
struct Instruction {
  int guard = -1;  // the register of the predicate, or -1
  bool guard_negated = false;
  std::string_view opcode;                  // into Module::text
  std::vector<std::string_view> modifiers;  // without their dots; "cta::cluster"-like ones whole
  std::vector<Operand> operands;
  int line = 0;                      // in the PTX text, from 1
  const Location* source = nullptr;  // null: the PTX has no .loc for it
  std::string_view text;             // the whole instruction as written, without the semicolon
};

// A variable: .global, .const, .shared, .local, or a parameter (.param).
struct Variable {
  std::string name;
  Space space = Space::global;
  Type type = Type::none;
  uint64_t alignment = 1, size = 0;  // bytes; size 0 and external: the launch's dynamic shared memory
  Linkage linkage = Linkage::internal;
  bool is_managed = false;
  int reg = -1;                    // a parameter in a register: its index in Function::registers
  std::vector<std::byte> initial;  // the first bytes, `size` at most; the rest is zeros
  struct Relocation {
    uint64_t at;
    std::string symbol;
    int64_t offset;
  };
  std::vector<Relocation> relocations;  // 64-bit words of `initial` that hold the address of a symbol (generic(x) or x)
};

struct Function {
  std::string name;
  Linkage linkage = Linkage::internal;
  bool is_entry = false, is_declared_only = false;
  int line = 0;  // where its name stands
  std::vector<Variable> parameters, returns;
  std::vector<Type> registers;      // every .reg of the function, its inner scopes included
  std::vector<Variable> variables;  // .shared, .local and call .param of the body; in inner scopes "param0@7"
  std::vector<Instruction> code;
  // The .branchtargets of brx.idx, whose operand is a symbol with the name of the table and its index here as value.
  std::vector<std::vector<int>> branch_targets;
  unsigned max_threads = 0;                       // .maxntid as a product, 0 if not given
  std::array<unsigned, 3> required_threads = {};  // .reqntid; {0, 0, 0}: not given
  std::array<unsigned, 3> cluster = {};           // .reqnctapercluster; likewise
  bool needs_cluster = false;                     // .explicitcluster: a launch must name a size
  unsigned max_cluster = 0;                       // .maxclusterrank, 0 if not given
  int cluster_line = 0;                           // of the first directive about clusters
};

struct Module {
  Module() = default;
  Module(const Module&) = delete;  // views point into text, locations to one another and to files
  Module& operator=(const Module&) = delete;
  Module(Module&&) = default;  // moving a container keeps its elements where they are
  Module& operator=(Module&&) = default;
  std::vector<char> text;
  unsigned version = 0, target = 0;  // 90 for .version 9.0; 75 for .target sm_75
  char target_variant = 0;           // 'a' of sm_90a, 'f' of sm_100f
  int target_line = 1;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::map<uint64_t, std::string_view> files;  // by their numbers
  std::deque<Location> locations;
  std::vector<Module> parts;  // of a linked module: what the views and locations of its functions point into
};

// Reads PTX text. Throws Error with the line.
Module parse(std::string_view text);

// A version of PTX that there is not, or that is newer than this one (90 for 9.0). As it comes first in a text, it is
// looked at before all else.
struct UnsupportedVersion : Error {
  using Error::Error;
};
void need_version(std::string_view text, unsigned newest);  // throws it

// Makes one module of several, each with a name for messages. Messages are worded as the driver's linker words them.
class Linker {
 public:
  void add(Module, const std::string& name);  // throws Error if it does not go with those before
  // The first that is used and that no module has: "Undefined reference to 'f' in 'main.ptx'"; "" if there is none.
  // What is in `provided` may be missing.
  std::string undefined(const std::set<std::string>& provided) const;
  Module finish();  // what is undefined stays so

 private:
  struct Unit {
    Module module;
    std::string name;
  };
  struct Symbol {
    size_t unit;  // that defines it, or else the first to declare it
    bool is_defined, is_function;
    Linkage linkage;
    Space space;
    uint64_t size;
  };
  void meet(const std::string& name, const Symbol& other);
  std::vector<Variable> variables_of_launch() const;
  void move_kept(size_t unit, Module& to);
  std::vector<Unit> units_;
  std::map<std::string, Symbol> symbols_;  // all but the internal ones
};

// One image of a fat binary.
struct Image {
  bool is_ptx = false;        // else machine code, which is not simulated
  bool is_lto = false;        // nor is what -dlto leaves for a linker to compile
  unsigned architecture = 0;  // 75, 90, ...
  enum Packing : uint8_t { plain, lz4, zstd } packing = plain;
  std::span<const std::byte> stored;  // in the fat binary
  size_t size = 0;                    // bytes of the PTX when it is unpacked
};

// Reads the images of a fat binary, which begins with 0xba55ed50. Throws Error if it is damaged or does not lie whole
// within `bytes`.
std::vector<Image> read_fat_binary(std::span<const std::byte> bytes);

// The size in bytes of the fat binary at `header` (16 readable bytes). Throws Error if it is none.
size_t fat_binary_size(const void* header);

// The newest PTX that a GPU of this compute capability (90 for 9.0) takes; null: there is none, as why_none() tells.
const Image* newest_ptx(std::span<const Image>, unsigned capability);
std::string why_none(std::span<const Image>, unsigned capability);  // "it holds machine code for sm_90, and ..."

// The text of PTX, without trailing zeros. Throws Error if it is damaged, and MissingLibrary.
std::string unpacked(const Image&);

// The library that unpacks is not on this machine; in words, with the packages that bring it.
struct MissingLibrary : Error {
  using Error::Error;
};
void need_library(const Image&);  // throws it

}  // namespace ptx
