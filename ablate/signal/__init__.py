"""Signal: how signals propagate at initialisation, in closed form; what initialisations are solved from.

Here live: the maps of activations and the numbers that shape them, the attention matrices of skipless blocks, and the
recursions of variances and correlations. Float64 numbers by numpy and scipy.
Never: torch, a component, or anything that trains.
"""
