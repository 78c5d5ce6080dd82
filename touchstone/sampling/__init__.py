"""The machine's load while models are asked, measured by a process of its own, so that a busy run does not distort it.

`parent.Sampler` starts that process (`python -m touchstone.sampling`) and reads the peak from it; `probes` asks the
machine; `touchstone.load` adds up what was recorded. Whatever becomes of the process, the run goes on.
"""
