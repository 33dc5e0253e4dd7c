"""What every part of the lab uses: kernel calls, /proc, JSON lines, results files."""
