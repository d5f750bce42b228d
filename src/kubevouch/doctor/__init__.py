"""Why a join or a renewal does not work: what is looked at, and what is found."""
