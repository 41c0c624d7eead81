"""Hooks: functions and commands that a Pod asks, or tells, at fixed points."""
