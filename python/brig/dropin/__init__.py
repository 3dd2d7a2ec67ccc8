# SPDX-License-Identifier: MIT
"""Replacements for other runners: each module has the names, signatures, defaults, messages and
result fields of another runner, implemented with brig.

    from brig.dropin.loomflow import SubprocessSandbox
    from brig.dropin.openjarvis import run_sandboxed
    from brig.dropin.secuscan import sandbox_execute
    from brig.dropin.scidex import isolated_run
    from brig.dropin.amplifier import run_session_in_subprocess

Their defects are not copied: no process survives a run, the kernel decides which limit was hit, and
secrets of the caller are not visible inside. Each module has a dict SETTINGS with further keywords of
brig.run() for all of its runs. See docs/python/5-embedding.md, "Coming from elsewhere".
"""
