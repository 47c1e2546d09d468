"""What the documentation is made with; no part of the installed package."""
