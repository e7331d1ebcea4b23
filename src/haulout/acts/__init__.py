"""Carries out the acts of people: finds the object, asks for the rights, sends the writes or shows them."""
