# SPDX-License-Identifier: Apache-2.0
"""Fuzzing: random and damaged inputs, and state that no job writes. What comes of one is an answer, or an error of
:mod:`windrow.errors`; never another exception, a crash, or a process that hangs.

Input ``n`` of a target is the same in every run: an entry of its corpus, changed as a random generator of that seed
says. The corpora are the files in ``corpus``; what once was a bug is kept there.

>>> from windrow_conformance.fuzzing.targets import TARGETS
>>> from windrow_conformance.fuzzing.trial import outcome
>>> outcome(TARGETS["duration"], 3) in ("an answer", "DurationError")
True
"""
