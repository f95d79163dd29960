// SPDX-License-Identifier: MIT-0
// A value of the process that is never destroyed: destructors of the program, other threads and workers may use it
// until the very end.
#pragma once

template <class T> T& lasting() {
  static T& value = *new T;
  return value;
}
