"""Parts and weights that read values from elsewhere in the model. Slots `part` and `weight`. The folder is the list."""
