# Lists the files worth a look: those git would track, else all but well-known clutter.
export LC_ALL=C # names are bytes: in UTF-8, bash swallows a line's end behind half a character
tracked() { git -c core.fsmonitor=false ls-files -z --cached --others --exclude-standard 2>/dev/null; }
if tracked | head -c 1 | grep -q .; then by=git; else by=find; fi
echo "by	$by"
names() {
  if [ $by = git ]; then tracked; else
    find . -xdev -type d '(' -name .git -o -name .hg -o -name .svn -o -name .jj -o -name node_modules \
      -o -name __pycache__ -o -name .venv -o -name venv -o -name .tox -o -name .nox -o -name '.*_cache' \
      -o -name .hypothesis -o -name '*.egg-info' ')' -prune -o -type f -printf '%P\0' 2>/dev/null
  fi
}
# A line a file: newlines in names travel as \001, the number of folders goes first (shallow files count more).
names | head -z -n "$most" | xargs -0 -r stat --printf='%F\t%s\t%n\0' -- 2>/dev/null \
  | tr '\n\0' '\001\n' | most=$most awk -F'\t' '
    BEGIN { most = ENVIRON["most"] + 0 }
    END { if (NR >= most) print "0\t-1\t" }
    $1 ~ /^regular/ { name = substr($0, length($1 $2) + 3); print gsub("/", "/", name) "\t" $2 "\t" name }' \
  | sort -t "$(printf '\t')" -k1,1n -k3 \
  | report=$report cap=$cap room=$room binary=$binary generated=$generated awk -F'\t' '
    BEGIN {
      report = ENVIRON["report"]; cap = ENVIRON["cap"] + 0; room = ENVIRON["room"] + 0
      binary = ENVIRON["binary"]; generated = ENVIRON["generated"]
    }
    {
      size = $2 + 0; path = substr($0, length($1 $2) + 3)
      if (size < 0) { print "cut"; next } # there are more
      if (path == before) next # unmerged in git
      before = path
      if (path == report || path ~ /^pod-report(-[0-9]+)?[.]md$/) next
      base = path; sub(/.*\//, "", base); low = tolower(base)
      kind = low; if (!sub(/^.*[.]/, "", kind) || low ~ /^[.][^.]*$/ || kind !~ /^[a-z0-9_+-]+$/ || length(kind) > 12) kind = "-"
      files++; bytes += size
      why = ""
      cost = length(path) + 3 * gsub(/[^ -~]|[\\`]/, "&", path)
      if (index(binary, " " kind " ")) why = "binary by name"
      else if (index(generated, " " low " ") || low ~ /[.]min[.](js|css)$|[.](js|css|ts)[.]map$/) why = "generated"
      else if (size > 52428800) why = "larger than 50 MiB"
      else if (cost > 300) why = "very long paths"
      if (why != "") { left[why]++; next }
      rank = taken[kind]++; row[rank, ++rows[rank]] = cost "\t" size "\t" path; if (rank > last) last = rank
    }
    END {
      printf "total\t%d\t%.0f\n", files, bytes
      for (why in left) print "left\t" left[why] "\t" why
      # One file of each kind, then a second one of each, and so on.
      for (rank = 0; rank <= last; rank++) for (i = 1; i <= rows[rank]; i++) {
        line = row[rank, i]
        if (full || n >= cap || (room -= line + 0) < 0) { full = 1; more++; continue }
        n++; sub(/^[0-9]+/, "file", line); print line
      }
      if (more) print "left\t" more "\tbeyond the cap"
    }' \
  | while IFS= read -r line; do
    tag=${line%%$'\t'*} rest=${line#*$'\t'}
    if [ "$tag" = file ]; then
      name=${rest#*$'\t'} name=${name//$'\001'/$'\n'}
      size=${rest%%$'\t'*} lines=-1
      if [ "$size" = 0 ]; then lines=0; elif [ "$size" -le "$long" ]; then
        lines=$(wc -l 2>/dev/null <"./$name") || lines=-1
      fi
      printf 'file\t%s\t%s\t%q\n' "$size" "$lines" "$name"
    else
      printf '%s\n' "$line"
    fi
  done
