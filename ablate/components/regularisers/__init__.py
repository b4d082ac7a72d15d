"""Regularisers: what disturbs a signal in training and is not there in evaluation."""
