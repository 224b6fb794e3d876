"""Actions on one pod, and how much each releases or restores: arithmetic only, nothing is written
here.
"""
