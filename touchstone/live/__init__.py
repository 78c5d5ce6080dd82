"""Pages that grow while one looks at them: watch, rebuild, tell the open pages.

hub (who is to be told what), server (HTTP and the event stream), watch (what changed on disk). The pages are those of
the builder, byte for byte; the script that updates them is added on the way out and never lies on disk.
"""
