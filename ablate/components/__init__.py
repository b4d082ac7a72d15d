"""Components: one mechanism per file, with its equation and its paper.

The folders below hold the components, a slot or a kind of part in each; a folder's files are the list of what ships.

    declare.py     how a component declares itself
    protocols.py   what components and those who build and train them ask of one another
    registry.py    the catalogue: what ships, what other distributions bring, and a user's plugins
    solved.py      what activations share whose maps are solved from a whole network
    activations/   nonlinearities of an MLP
    biases/        what is added to the scores by distance
    combinators/   residuals, parallel branches, concatenation: what joins sequences of parts
    entropy/       what keeps attention logits small
    inits/         how a weight is filled
    matrices/      what multiplies the values: softmax attention, or what is made of it
    mixers/        attention and MLP
    norms/         normalisations over the last axis
    positions/     positions that act on queries and keys
    regularisers/  what disturbs a signal in training alone
    weights/       linear maps

Never here: configs read from files, knowledge of the trainer, or one component importing another.
"""
