"""Whether a search that skips what a forecast finds in danger trains fewer blocks until it has the best.

    PYTHONPATH=. python tests/benchmarks/search_prior.py --results /tmp/search_prior

The protocol, which was written down before anything was trained:

- Blocks: all that `spaces/search_prior.yaml` can propose, each trained once, at seed 0, whatever its forecast says. What is
  the same model is one block. The reference is none of them.
- Searches: by `random` and by `tpe`, each from the seeds 0 to 19, each with `beforehand.forecast: ignore` and `avoid`, whose
  bounds are those that ship (`ablate/theory/dangers.py`). One trial at a time. The searches are those of the engine, told what
  each block came to, which is the same in all of them, so that it need be trained only once.
- The best: a loss of at most 1.01 times the lowest of all blocks; 1 % is the margin of the space. Also the lowest itself.
- What counts: the number of blocks trained, without the reference, until the first that is the best. A search that ends
  without it has the number of all blocks and one.
- What is said: the median of both arms, the median of the differences paired by seed (avoid - ignore) with its 95 % interval
  (percentile bootstrap of the seeds, 10,000 times, seed 0), and in how many seeds `avoid` needed fewer and more (sign test).
- False alarms: of the blocks that are the best, how many are skipped; and of all that are skipped, how many trained, that is
  ended below the loss of the text's byte frequencies.
- Twin: the same searches with as many blocks skipped, of random ones in place of those in danger, a permutation for each
  seed. The skipping itself must not be what helps.
"""
