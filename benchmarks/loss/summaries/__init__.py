"""Ways a summary loses what was said: the scenarios, the systems and the judge.

Everything that is said bears a mark, such as `m017`. The summariser is a scripted model that notes
every mark it reads, so a mark that is neither in what the model is called with nor in the summary
there never reached a summariser, or was dropped behind it. See `benchmarks.loss`.
"""
