"""ESX: maintenance of nodes whose virtual machines run on ESX hosts."""
