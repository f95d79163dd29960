# SPDX-License-Identifier: MIT-0
# What ./run.sh --view does beside `vmmsim view`; and views of what has really run.
vmmsim_pytest(viewer.checkout tests/watch_test.py)
vmmsim_pytest(viewer.lessons tests/views_test.py)
label(viewer viewer.checkout viewer.lessons)
label(long viewer.lessons)
