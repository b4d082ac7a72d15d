"""Components: one mechanism per file, with its equation and its paper.

Each folder below holds the components of one slot or kind of part; its files are the list of what ships.

    declare.py     how a component declares itself
    protocols.py   what components, the compiler and the trainer expect of one another
    kept.py        what a module keeps of a forward pass for a loss of its own
    registry.py    the catalogue: shipped components, those of other distributions, and a user's plugins
    solved.py      what activations solved from a whole network share
    inverted.py    whether a weight starts as the inverse of another one
    elementwise.py         what activations without parameters declare alike
    elementwise_module.py  and how they compute
    activations/   nonlinearities of an MLP
    biases/        what is added to the scores by distance
    combinators/   residuals, parallel branches, concatenation: what joins sequences of parts
    elsewhere/     what reads values that stand earlier in the model
    entropy/       what keeps attention logits small
    gates/         factors on what attention gives, decided by its input
    inits/         how a weight is filled
    masks/         which keys a query sees
    matrices/      what multiplies the values: softmax attention, or what is made of it
    mixers/        attention and MLP
    patterns/      what stands in a slot for its alternatives, one of them in each layer
    norms/         normalisations over the last axis
    positions/     positions that act on queries and keys
    regularisers/  what disturbs a signal during training only
    sinks/         what takes part of a query's weights, and gives nothing
    weights/       linear maps

Dimension key, where a file has no other: B batch, T time or queries, S keys, H heads, K width of a head, D width of the
model, I and O widths of the input and the output of a weight (d_in, d_out), V vocabulary. A matrix W is [d_out, d_in].

Never here: configs read from files, knowledge of the trainer, or one component that imports another.
"""
