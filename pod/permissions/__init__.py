"""Which tool calls may run: rules, what they are matched with, who is asked."""
