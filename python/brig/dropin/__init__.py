"""Homes for those who come from elsewhere: each module has the names, signatures, defaults, messages
and result fields of another runner, over brig.

    from brig.dropin.loomflow import SubprocessSandbox
    from brig.dropin.openjarvis import run_sandboxed
    from brig.dropin.secuscan import sandbox_execute
    from brig.dropin.scidex import isolated_run
    from brig.dropin.amplifier import run_session_in_subprocess

What was a defect there is not kept: nothing survives a run, verdicts are the kernel's, and a secret
of the caller is not to be seen inside. Each module has a dict SETTINGS with further keywords of
brig.run() for all of its runs. See docs/PYTHON.md, "Coming from elsewhere".
"""
