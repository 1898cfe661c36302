//! The small, messy project that the demo works on.

use std::path::Path;
use std::{fs, io};

/// A month of expenses of three people: one bill listed twice, one private item, dates, names and decimals in several
/// formats.
pub(super) const EXPENSES: &str = "\
date,who,what,amount
2025-03-02,Ada,groceries,64.20
2025-03-03,Tom,internet,39.99
03.03.2025,Tom,Internet,39.99
2025-03-07,Mia,electricity,112.50
2025-03-09,Ada,\"soap, sponges\",8.75
2025-03-14,Ada,headphones,89.90
2025-03-18,mia,groceries,71.36
2025-03-21,TOM,cleaning,24.00
2025-03-30,Ada,groceries,\"58,40\"
";

/// What one needs to know to read it.
pub(super) const NOTES: &str = "\
# Flat, March

- The internet bill is in the list twice. Count it once.
- Ada's headphones are private and do not belong on the list.
- Everything else is shared by the three of us.
- The bank statement is in ../bank/march.csv, should you need it.

- [ ] settle March
";

pub(super) const RECEIPT: &str = "\
City Power, invoice 2025-0307
Electricity, February and March: EUR 112.50
Paid by Mia, with thanks.
";

/// Writes the files.
pub(super) fn write(directory: &Path) -> io::Result<()> {
    let receipts = directory.join("receipts");
    fs::create_dir_all(&receipts)?;
    fs::write(directory.join("expenses.csv"), EXPENSES)?;
    fs::write(directory.join("notes.md"), NOTES)?;
    fs::write(receipts.join("electricity.txt"), RECEIPT)
}
