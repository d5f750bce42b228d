"""What was decided and issued, by whom and why: only ever appended to, chained, and provable."""
