// SPDX-License-Identifier: MIT-0
// A file, and what an ELF file says of itself; of one that is broken it says nothing, and the loader has the last word.
// Nothing here needs the C++ library: the hook has none (runtime/hook.cc).
#pragma once
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include "processor.h"

class ElfFile {
 public:
  explicit ElfFile(const char* path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    is_readable = fd >= 0 && fstat(fd, &about) == 0;
    void* const bytes = is_readable ? mmap(nullptr, about.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (bytes != MAP_FAILED) file_ = {static_cast<const char*>(bytes), size_t(about.st_size)};
    if (fd >= 0) close(fd);
    if (file_.starts_with(ELFMAG)) header_ = at<Elf64_Ehdr>(0);
  }
  ~ElfFile() { munmap(const_cast<char*>(file_.data()), file_.size()); }
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  bool is_readable = false;
  struct stat about = {};
  bool is_elf() const { return header_; }
  bool is_for_us() const {
    return header_->e_ident[EI_CLASS] == ELFCLASS64 && header_->e_machine == processor::elf_machine;
  }
  // The path of the loader that starts it; none: it is static.
  std::string_view interpreter() const {
    for (unsigned i = 0; i < header_->e_phnum; ++i)
      if (segment(i) && segment(i)->p_type == PT_INTERP) {
        const std::string_view path = bytes(segment(i)->p_offset, segment(i)->p_filesz);
        return path.substr(0, path.find('\0'));
      }
    return {};
  }
  uint64_t thread_variables() const {  // bytes of them, for each thread
    uint64_t size = 0;
    for (unsigned i = 0; header_ && i < header_->e_phnum; ++i)
      if (segment(i) && segment(i)->p_type == PT_TLS) size += segment(i)->p_memsz + segment(i)->p_align;
    return size;
  }

  uint64_t first_address() const {  // where its first part is to lie: 0 of what can lie anywhere
    uint64_t first = ~uint64_t(0);
    for (unsigned i = 0; header_ && i < header_->e_phnum; ++i)
      if (segment(i) && segment(i)->p_type == PT_LOAD && segment(i)->p_vaddr < first) first = segment(i)->p_vaddr;
    return first == ~uint64_t(0) ? 0 : first & ~uint64_t(4095);
  }

  // Its bytes; none if there is no such section.
  std::string_view section(std::string_view name) const {
    const Elf64_Shdr* const names = header_ ? header(header_->e_shstrndx) : nullptr;
    for (unsigned i = 0; names && i < header_->e_shnum; ++i)
      if (header(i) && text(*names, header(i)->sh_name) == name) return bytes(*header(i));
    return {};
  }

  // Calls visit(bytes, address) for each part that holds code.
  template <class Visit> void each_code(const Visit& visit) const {
    for (unsigned i = 0; header_ && i < header_->e_phnum; ++i)
      if (const Elf64_Phdr* const part = segment(i); part && part->p_type == PT_LOAD && part->p_flags & PF_X)
        visit(bytes(part->p_offset, part->p_filesz), part->p_vaddr);
  }

  // Calls visit(name, symbol) for each symbol of a table: SHT_DYNSYM, which the loader reads, or SHT_SYMTAB, which a
  // stripped file lacks.
  template <class Visit> void each_symbol(unsigned table, const Visit& visit) const {
    for (unsigned i = 0; header_ && i < header_->e_shnum; ++i) {
      const Elf64_Shdr* const entry = header(i);
      if (!entry || entry->sh_type != table || !header(entry->sh_link)) continue;
      const std::string_view all = bytes(*entry);
      for (uint64_t offset = 0; offset + sizeof(Elf64_Sym) <= all.size(); offset += sizeof(Elf64_Sym)) {
        const auto* const symbol = reinterpret_cast<const Elf64_Sym*>(all.data() + offset);
        visit(text(*header(entry->sh_link), symbol->st_name), *symbol);
      }
    }
  }
  // Whether it gives a symbol to others, or takes it from them.
  bool has_symbol(std::string_view name) const {
    bool found = false;
    each_symbol(SHT_DYNSYM, [&](std::string_view symbol_name, const Elf64_Sym&) { found |= symbol_name == name; });
    return found;
  }
  // Whether it holds the CUDA runtime, and the names of its functions: those of its own begin so.
  bool has_runtime_inside() const {
    bool found = false;
    each_symbol(SHT_SYMTAB, [&](std::string_view symbol_name, const Elf64_Sym& symbol) {
      found |= symbol.st_shndx != SHN_UNDEF && symbol_name.starts_with("libcudart_static_");
    });
    return found;
  }
  // Whether it holds the runtime without these names: they go when a file is stripped.
  bool has_nameless_runtime() const {
    if (!has_symbol("dlsym")) return false;  // by which a runtime finds the driver
    if (has_symbol("__cudaRegisterFatBinary") || has_symbol("__cudaUnregisterFatBinary")) return false;  // shared
    if (has_runtime_inside()) return false;
    static constexpr char text_of_an_error[] = "CUDA driver version is insufficient for CUDA runtime version";
    for (const char* constants : {".rodata", ".lrodata"}) {
      const std::string_view all = section(constants);
      if (memmem(all.data(), all.size(), text_of_an_error, sizeof text_of_an_error)) return true;
    }
    return false;
  }

 private:
  std::string_view bytes(uint64_t offset, uint64_t size) const {
    if (offset > file_.size() || size > file_.size() - offset) return {};
    return {file_.data() + offset, size};
  }
  std::string_view bytes(const Elf64_Shdr& section) const {
    return section.sh_type == SHT_NOBITS ? std::string_view() : bytes(section.sh_offset, section.sh_size);
  }
  std::string_view text(const Elf64_Shdr& section, uint64_t offset) const {
    const std::string_view all = bytes(section);
    if (offset >= all.size()) return {};
    const std::string_view from(all.data() + offset, all.size() - offset);
    const size_t end = from.find('\0');
    return end == from.npos ? std::string_view() : std::string_view(from.data(), end);
  }
  template <class T> const T* at(uint64_t offset) const {
    return reinterpret_cast<const T*>(bytes(offset, sizeof(T)).data());
  }
  const Elf64_Shdr* header(unsigned section) const {
    return section < header_->e_shnum ? at<Elf64_Shdr>(header_->e_shoff + section * sizeof(Elf64_Shdr)) : nullptr;
  }
  const Elf64_Phdr* segment(unsigned index) const {
    return at<Elf64_Phdr>(header_->e_phoff + index * sizeof(Elf64_Phdr));
  }
  std::string_view file_;
  const Elf64_Ehdr* header_ = nullptr;
};
