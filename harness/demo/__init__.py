"""The demo: a support desk for an invented company, and how its golden dataset is recorded."""
