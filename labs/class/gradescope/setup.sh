#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# Gradescope runs this once, as root, when it makes the image. ./lab.sh gradescope has put it into the zip, which is
# unpacked in /autograder/source. The checkout's own set-up gets the compilers and builds the simulator.
set -euo pipefail
missing=()
command -v python3 > /dev/null || missing+=(python3)
command -v bwrap > /dev/null || missing+=(bubblewrap)
[[ -e /etc/ssl/certs/ca-certificates.crt ]] || missing+=(ca-certificates)
if ((${#missing[@]})); then
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
fi
mkdir -p /autograder/labs
tar -C /autograder/labs --no-same-owner -xf /autograder/source/checkout.tar
cd /autograder/labs
./lab.sh > /dev/null
chmod -R a+rX,go-w /autograder/labs
chmod -R go-rwx /autograder/labs/labs/checks /autograder/source
