"""The pods and ConfigMaps that are made for packages: names, bodies, rows, and the results that pods leave."""
