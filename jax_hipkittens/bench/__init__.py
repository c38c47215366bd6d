"""Times the ops against what a user would call instead: ``... bench``.

- ``cases``: what is timed, as data.
- ``timing``: interleaved measurement of one case.
- ``torch_contender``: PyTorch's calls for the same work.
- ``memory``: memory of attention at a long sequence.
- ``report``, ``plot``: the results as text, JSON and a figure.
- ``cli``: the command line.
"""
