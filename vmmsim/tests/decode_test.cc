// SPDX-License-Identifier: MIT-0
// What a decoded instruction of PTX says in its fields, and its operands by the names that instructions.h has for them.
#include "../simulator/ptx/decode.h"
#include <cstdio>
#include <string>
#include "unit_check.h"

namespace {

using ptx::Operand;
using ptx::Type;

void test_decoding() {
  const ptx::Module module = ptx::parse(
      ".version 9.0\n.target sm_90a, debug\n.address_size 64\n"
      ".entry k(.param .u64 a) { .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;"
      ".reg .f32 %f<4>;"
      "ld.acquire.gpu.global.L1::no_allocate.v2.u32 {%r1, %r2}, [%rd1+8]; cvt.rmi.ftz.u32.f32 %r1, %f2;"
      "setp.ltu.and.f32 %p1|_, %f1, %f2, !%p2; shfl.sync.bfly.b32 %r1, %r2, 1, 31, %r3;"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%rd1], 16, [%r2], %rd2;"
      "mbarrier.arrive.release.b64 %rd1, [%r1]; add.u32 %r1, [%rd1], %r2; }");
  const ptx::Function& function = module.functions.back();
  using ptx::Space, ptx::Word;
  ptx::Decoder decoder(function);
  const auto why_not = [&](size_t k) {
    try {
      decoder.decode(function.code[k]);
    } catch (const ptx::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const ptx::Decoded ld = decoder.decode(function.code[0]);
  CHECK(ld.opcode == ptx::Opcode::ld && ld.order == ptx::Order::acquire && ld.scope == ptx::Scope::gpu);
  CHECK(ld.space == Space::global && ld.count == 2 && ld.type() == Type::u32 && ld.types[1] == Type::none);
  CHECK(ld["d"].elements.size() == 2 && ld["a"].offset == 8 && !ld.find("cache-policy"));
  const ptx::Decoded cvt = decoder.decode(function.code[1]);
  CHECK(cvt.types[0] == Type::u32 && cvt.types[1] == Type::f32 && cvt.rounding == ptx::Rounding::rmi);
  CHECK(cvt.has(Word::ftz) && !cvt.has(Word::sat) && cvt["a"].index == cvt.operands()[1].index);
  const ptx::Decoded setp = decoder.decode(function.code[2]);
  CHECK(setp.comparison == ptx::Comparison::ltu && setp.operation == ptx::Operation::and_ && !setp.has(Word::ftz));
  CHECK(setp["p"].index == 1 && setp["q"].index == -1 && setp["c"].negated && setp["b"].index == setp["a"].index + 1);
  const ptx::Decoded shfl = decoder.decode(function.code[3]);
  CHECK(shfl.which({Word::up, Word::bfly}) == 1 && shfl.which({Word::up}) == 1 && !shfl.find("p"));
  CHECK(shfl["membermask"].index == shfl["d"].index + 2 && shfl["c"].value == 31);
  const ptx::Decoded copy = decoder.decode(function.code[4]);
  CHECK(copy.space == Space::shared && copy.other_space == Space::global && copy.has(Word::bulk));
  CHECK(copy["size"].value == 16 && copy["mbar"].address && copy["cache-policy"].kind == Operand::reg);
  CHECK(!copy.find("ctaMask") && !copy.has(Word::multicast_cluster));
  CHECK(why_not(5) == "line 4: Modifier '.release' requires scope with 'mbarrier.arrive' instruction");
  CHECK(why_not(6) == "line 4: Arguments mismatch for instruction 'add'");
}

}  // namespace

int main() {
  test_decoding();
  return end_of_checks();
}
