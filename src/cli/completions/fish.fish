
# Experiments, stored runs and their cells: the program knows them.
function __iotrail_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    $words[1] __complete $words[2..-1] "$current" 2>/dev/null
end
complete -c iotrail -n "__fish_seen_subcommand_from run report compare export" -k -a "(__iotrail_candidates)"
