# SPDX-License-Identifier: Apache-2.0
"""The main job, `windrow demo`: an evening of smart plugs, on any engine, with the same result from each.

`scenario` says what is computed and on which data. `local` runs it in this process; `windrow_spark.demo` and
`windrow_flink.demo` run it on the engines. `compare` compares an engine's windows with the in-process result. `view`
shows progress in the terminal, `page` makes the HTML page, and `show` puts all of it together.
"""
