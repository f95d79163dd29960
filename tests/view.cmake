# SPDX-License-Identifier: MIT-0
# From recordings to what one sees of them.

example_test(viewer.watch ${python} tests.watch_test ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER})
label(viewer viewer.watch)

example_test(viewer.view_in_browser ${python} vmmsim.tests.view_in_browser_test)
label(viewer viewer.view_in_browser)
label(browser viewer.view_in_browser)
example_test(viewer.frames ${python} tests.frames_test $<TARGET_FILE_DIR:vmmsim>)
label(viewer viewer.frames)
label(long viewer.frames)
set_tests_properties(viewer.frames PROPERTIES TIMEOUT 300)  # 30 s of a core
