"""The validator: it checks a node after its maintenance."""
