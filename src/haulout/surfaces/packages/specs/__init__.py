"""The specs that people write into Skyhooks and DeploymentPolicies, and what is wrong with them."""
