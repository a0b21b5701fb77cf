"""A copy of a page in a frame of some width, with tools/seen.js in it: frame.py PAGE WIDTH HEIGHT.

Chromium's windows are at least 500 pixels wide; a frame can be as narrow as a phone. What was seen is put
beside the frame.
"""
import html
import os
import sys

page, width, height = open(sys.argv[1]).read(), int(sys.argv[2]), int(sys.argv[3])
seen = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "seen.js")).read()
page = page.replace("</body>", f"<script>{seen}</script></body>")
print(f'<!DOCTYPE html><html><body style="margin:0"><iframe style="border:0" width="{width}" height="{height}" '
      f'srcdoc="{html.escape(page, quote=True)}"></iframe></body></html>')
