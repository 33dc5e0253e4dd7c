"""The commands of `netns-lab/lab`."""
