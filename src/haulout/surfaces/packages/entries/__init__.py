"""The entries of packages in the annotation of a node: their form, their stages, and how they change."""
