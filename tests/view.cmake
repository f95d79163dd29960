# SPDX-License-Identifier: MIT-0
# What ./run.sh --view does beside `vmmsim view`; and views of what has really run.
pytest_test(viewer.checkout tests/watch_test.py)
pytest_test(viewer.lessons tests/views_test.py)
label(viewer viewer.checkout viewer.lessons)
label(long viewer.lessons)
