"""What the home and the away side are made of: their memories of jobs, messages, and the batch system."""
