"""The Skyhook itself: its intent for nodes, its rollout in batches and waves, its status and its ConfigMaps."""
