"""The esx surface: maintenance of nodes whose virtual machines run on ESX hosts."""
