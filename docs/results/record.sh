#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# Measures what the performance page shows, on a machine with NVIDIA GPUs that nobody else uses:
#   docs/results/record.sh build/bin DIRECTORY
# DIRECTORY gets a file for each kind of measurement, and in output/ what each run printed. It takes about six minutes
# on H200s. The tables beside this script have the rows of such files that a page shows.
set -uo pipefail
tests=${1:-}/../tests/docs
if [[ $# != 2 || ! -x $1/growth_cost || ! -x $tests/two_gpus || -n $(ls -A "$2" 2> /dev/null) ]]; then
  echo "usage: docs/results/record.sh BIN DIRECTORY: BIN has the programs, and DIRECTORY must be empty or new" >&2
  exit 2
fi
bin=$1 out=$2 failed=0
mkdir -p "$out/output"

# record FILE GPUS PROGRAM ARGUMENTS...: adds one run to the file. A run that fails adds nothing.
record() {
  local file=$1 gpus=$2 program=$3
  shift 3
  local output
  output="$out/output/${file}_$program$(printf '%s' "$@").txt"
  if CUDA_VISIBLE_DEVICES=$gpus timeout 120 "$bin/$program" "$@" --csv "$out/run" > "$output"; then
    if [[ -e $out/$file.csv ]]; then sed -i 2d "$out/run"; fi # the names of the columns are there
    cat "$out/run" >> "$out/$file.csv"
  else
    echo "record.sh: exit status $?: $program $*" >&2
    failed=1
  fi
  rm -f "$out/run"
}

# record_table FILE GPUS PROGRAM TABLE
record_table() {
  if ! CUDA_VISIBLE_DEVICES=$2 timeout 120 "$tests/$3" "$4" > "$out/$1.csv"; then
    echo "record.sh: $3 $4 failed" >&2
    mv "$out/$1.csv" "$out/output"
    failed=1
  fi
}

count=$(nvidia-smi -L | wc -l)
one=0 two=0,1 all=$(seq -s , 0 $((count - 1)))

for kib in 64 256 1024 4096 16384 65536 262144 1048576; do
  record "peer_cost_${count}_gpus_sizes" "$all" peer_cost --kib $kib --repeats 20
  if [[ $count -gt 2 ]]; then record peer_cost_2_gpus_sizes $two peer_cost --kib $kib --repeats 20; fi
done
for mib in 2 16 64 256 1024; do
  record ipc_cost_1_gpu_sizes $one ipc_cost --mib $mib
done
for mib in 64 128 256 512 1024 2048 4096; do
  record compressible_1_gpu_sizes $one compressible --mib $mib --repeats 20
done
for final in 512 2048 8192; do
  record growth_cost_1_gpu_final_sizes $one growth_cost --final-mib $final --step-mib $((final / 32)) --repeats 5
done
record growth_cost_1_gpu_32_gib $one growth_cost --final-mib 32768 --step-mib 1024 --repeats 5 --quiet-ms 100
for step in 2 8 32 128 512 1024; do
  record growth_cost_1_gpu_steps $one growth_cost --final-mib 2048 --step-mib $step
done
record_table calls_by_threads $one vmm_limits threads
record_table page_tables $one vmm_limits page_tables
record_table mappings $one vmm_limits mappings
record_table processes $one vmm_limits processes
if [[ $count -gt 1 ]]; then
  record_table first_share $two two_gpus first_share
  record_table calls_by_gpus $two two_gpus calls
  record_table rows_by_size $two two_gpus rows
fi
exit $failed
