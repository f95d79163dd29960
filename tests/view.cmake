# SPDX-License-Identifier: MIT-0
# What ./run.sh --view does beside `vmmsim view`; and views of what has really run.
example_test(viewer.checkout ${python} tests.watch_test ${PROJECT_BINARY_DIR})
example_test(viewer.lessons ${python} tests.views_test $<TARGET_FILE_DIR:vmmsim>)
label(viewer viewer.checkout viewer.lessons)
label(long viewer.lessons)
