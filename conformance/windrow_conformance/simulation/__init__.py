# SPDX-License-Identifier: Apache-2.0
"""Deterministic simulation: one seed decides a query, its stream, and everything that goes wrong on the way.

A *stream* is a query, rows cut into batches, and watermarks, with the output of an uninterrupted run, which the oracle has
confirmed. A *schedule* is a list of events that happen while the stream is processed: crashes, commits that fail or
get lost, bytes that rot, a store that goes back, a second process. A *life* is a stream processed under a schedule. After
every step, its output has to be that of the uninterrupted run.

Nothing in a life depends on time, threads or the machine, so a seed that fails fails again. The method is that of
FoundationDB's simulator (Zhou et al., "FoundationDB: a distributed unbundled transactional key value store", 2021).

>>> from windrow_conformance.simulation.life import live
>>> live(7).failure
''
"""
