#!/bin/bash -eu
# OSS-Fuzz runs this in its container, in a clone of the repository.
tools/ossfuzz/compile
