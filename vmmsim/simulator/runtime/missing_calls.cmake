# SPDX-License-Identifier: MIT-0
# Writes OUT: every call that the toolkit's own runtime LIBRARY exports, weak, saying that it is not simulated (the real
# ones take its place), and the names of the errors in the HEADER driver_types.h. NM lists a library's symbols.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[TW] (__)?cuda[A-Za-z0-9_]+" symbols "${symbols}")
set(text "// From ${LIBRARY} and ${HEADER}\nnamespace runtime { int missing(const char* name); }\n")
string(APPEND text "#define MISSING(name) extern \"C\" __attribute__((weak, visibility(\"default\"))) "
  "int name() { return runtime::missing(#name); }\n")
foreach(symbol IN LISTS symbols)
  string(REGEX REPLACE "^[TW] " "" name ${symbol})
  string(APPEND text "MISSING(${name})\n")
endforeach()
if(NOT symbols)
  message(FATAL_ERROR "${NM} finds no call of the CUDA runtime in ${LIBRARY}")
endif()

string(APPEND text "namespace runtime {\nconst char* name_of(int error) {\n  switch (error) {\n")
file(STRINGS ${HEADER} errors REGEX "^ +cudaError[A-Za-z0-9]+ *= *[0-9]+|^ +cudaSuccess *= *0")
foreach(line IN LISTS errors)
  string(REGEX REPLACE "^ +([A-Za-z0-9]+) *= *([0-9]+).*" "    case \\2: return \"\\1\";\n" line "${line}")
  string(REGEX MATCH "case [0-9]+:" case "${line}")
  if(NOT text MATCHES "${case}")  # cudaErrorApiFailureBase shares its number
    string(APPEND text "${line}")
  endif()
endforeach()
string(APPEND text "    default: return nullptr;\n  }\n}\n}  // namespace runtime\n")
file(WRITE ${OUT} "${text}")
