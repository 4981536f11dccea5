"""windrow can be imported where its host has changed Python: PyFlink's worker processes have a ``print`` of their own."""

import subprocess
import sys

HOST = """
import builtins, sys, types

class Host:
    def print(self, *values, **options):
        pass

sys.modules["host"] = types.ModuleType("host")
Host.print.__module__ = "host"
builtins.print = Host().print
import windrow
sys.stdout.write(windrow.__version__)
"""


def test_a_host_may_have_replaced_print() -> None:
    ran = subprocess.run([sys.executable, "-c", HOST], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and ran.stdout, ran.stderr
