"""The main job, `windrow demo`: a day's evening of smart plugs, on any engine, with the same answer from each.

`scenario` is what is computed and on which data, `local` runs it in this process (`windrow_spark.demo` and
`windrow_flink.demo` on the engines), `compare` holds an engine's windows against the in-process answer,
`view` is what moves in the terminal, `page` the page that is left behind, and `show` puts them together.
"""
