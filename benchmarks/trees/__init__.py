"""The measurements of chapter 4 of the MTA thesis (Villalba, 2019): Table 4.2 and Figures 4.6 to 4.9."""
