"""Why a row is there, why it is not, and why that changed."""
